"""An incident whose coordinator leaves, so that a responder has to take over."""
