"""Serving: which layers every device holds, so that the most tokens flow through all devices."""
