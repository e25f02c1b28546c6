"""Reports on memory ordering: plan, trace, picture and table rows."""
