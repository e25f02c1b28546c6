"""TRANSITION: goes once no solver imports it."""
