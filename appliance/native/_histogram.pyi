TIME_BOUNDS_NS: tuple[int, ...]
