"""Record batches, magic 2: judged, built, taken apart, compressed; as rows and as Arrow columns.

Pure functions over bytes: no files, no sockets, no clock. Clients and Spark's workers import it
too.
"""
