"""Who waits for an executor: in turn by user, bounded, free to leave."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agor.daemon.pool.waiting import FairQueue
from agor.errors import PoolExhausted


def test_users_take_turns_whoever_asked_for_how_many():
    queue: FairQueue[str] = FairQueue(10)
    for waiter in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.push(waiter[0], waiter)
    assert [queue.pop() for _ in range(7)] == ["a1", "b1", "c1", "a2", "b2", "a3", None]


def test_past_the_bound_it_says_what_to_do():
    queue: FairQueue[int] = FairQueue(1)
    queue.push("a", 1)
    with pytest.raises(PoolExhausted, match="1 others already wait") as caught:
        queue.push("b", 2)
    assert "max_executors" in (caught.value.hint or "")
    assert len(queue) == 1


def test_who_leaves_is_forgotten_once():
    queue: FairQueue[int] = FairQueue(3)
    queue.push("a", 1)
    queue.push("a", 2)
    assert queue.remove("a", 1)
    assert not queue.remove("a", 1)
    assert not queue.remove("b", 2)
    assert (len(queue), queue.pop(), queue.pop()) == (1, 2, None)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans())))
def test_everybody_gets_out_once_and_each_user_in_order(steps):
    queue: FairQueue[tuple[str, int]] = FairQueue(1000)
    pushed, popped = [], []
    for number, (user, leave) in enumerate(steps):
        queue.push(user, (user, number))
        pushed.append((user, number))
        if leave and (out := queue.pop()):
            popped.append(out)
    while out := queue.pop():
        popped.append(out)
    assert sorted(popped) == sorted(pushed)
    for user in "abc":
        assert [w for w in popped if w[0] == user] == [w for w in pushed if w[0] == user]
    assert len(queue) == 0
