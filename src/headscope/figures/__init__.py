"""What people look at: matplotlib figures of one text."""
