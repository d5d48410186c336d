"""Reports drawn for the screen: from `memtui.report` to lines of styled text."""
