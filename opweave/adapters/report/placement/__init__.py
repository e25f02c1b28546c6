"""Reports on placement: plan, trace, picture, device map and explanation."""
