"""Plans of language models: counts of equal layers for each device, named baselines, and the questions of users."""
