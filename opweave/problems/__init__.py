"""What is decided: graphs, clusters, costs, constraints, problems, solutions and their referees."""
