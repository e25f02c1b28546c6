"""The data: graphs, clusters, costs, constraints, problems, solutions, and the referees that judge solutions."""
