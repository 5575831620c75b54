"""METHOD's quantities, as plain torch functions that read like the formulas."""
