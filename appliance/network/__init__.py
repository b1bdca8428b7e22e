"""The data plane: threads that never take the GIL read frames, answer Produce, Fetch and
ListOffsets themselves, and pass everything else on to `api/`.

Sockets live here. Each thread owns its connections; what they share is in `_control_plane_inbox`.
"""
