"""Services of the simulated cloud, one module or package for each."""
