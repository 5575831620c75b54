"""What people look at: matplotlib figures of one text and of a whole result."""

from headscope.extras import require

require("drawing figures", "matplotlib")
