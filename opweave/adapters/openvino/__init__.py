"""OpenVINO IR: reading graphs from ``.xml`` files, with nothing installed; weights are not read."""
