"""From "I need an executor" to its `ping` answered: the limit, ours, and cold peers."""
