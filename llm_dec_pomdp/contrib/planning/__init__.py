"""Planning in dialogue: each agent has private knowledge, and agents share it by messages."""
