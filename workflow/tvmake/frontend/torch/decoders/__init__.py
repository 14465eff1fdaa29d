"""Language models of transformers as networks with memory."""
