"""Origin and contents of a package: statement, component list, signature, and their verification."""
