"""The proof that a power cut, a kill or a failing disk takes nothing that was acknowledged."""
