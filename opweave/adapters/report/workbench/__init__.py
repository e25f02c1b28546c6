"""The page of a report: one HTML file with every view of a result, which works offline."""
