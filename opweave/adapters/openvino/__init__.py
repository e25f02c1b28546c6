"""OpenVINO IR: reading graphs from ``.xml`` files, with nothing installed; the weights beside them are not read."""
