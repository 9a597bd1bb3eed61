"""Lists as tables: as HTML for notebooks, and as data frames."""
