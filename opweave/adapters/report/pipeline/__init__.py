"""Reports on pipelines: plan, trace, picture, explanation, and files for other tools."""
