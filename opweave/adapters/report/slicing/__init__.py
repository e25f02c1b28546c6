"""Reports on slicing: plan, trace, pictures and explanation."""
