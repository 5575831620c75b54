"""The method's quantities, as plain torch functions that read like the formulas."""
