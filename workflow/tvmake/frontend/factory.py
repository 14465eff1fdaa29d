def export(source, options): raise NotImplementedError
