"""Memory ordering shown to people: its plan, trace, picture and table rows."""
