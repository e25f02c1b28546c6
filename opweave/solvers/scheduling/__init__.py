"""What schedulers of several problems share: busy times with gaps, orders by rank, thresholds of energetic bounds."""
