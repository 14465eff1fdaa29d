"""Export a module, and check that the program computes the same for all inputs."""
