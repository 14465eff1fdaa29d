def load(source, options): raise NotImplementedError
