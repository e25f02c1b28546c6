"""Reports on batched mapping: plan, trace, pictures and explanation."""
