"""What people look at: matplotlib figures of one text and of a whole result."""
