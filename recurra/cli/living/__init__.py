"""`recurra live`: agents that learn while they live. `command` has the options, `page` what is shown of the lives."""
