"""What the source of a network rounds already: its activations, and weights that it holds in few bits."""
