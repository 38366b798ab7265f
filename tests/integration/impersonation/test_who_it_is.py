"""An executor of another Unix user is that user in every respect, and so is what it starts."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.unix_users import parent_of, processes_of, status_of

WHO_AM_I = """
import json, os
mask = os.umask(0)
print(json.dumps({"uid": os.getresuid(), "gid": os.getresgid(), "groups": sorted(os.getgroups()),
                  "umask": mask, "cwd": os.getcwd(), "env": dict(os.environ)}))
"""


def test_an_executor_is_its_user_in_every_respect(site, pool, anna):
    acquired = pool.ask("acquire", session="a", unix_user=anna.name)
    assert acquired["unix_user"] == anna.name
    for process in (acquired["executor"], acquired["keeper"], parent_of(acquired["keeper"])):
        status = status_of(process)
        assert status["Uid"].split() == [str(anna.uid)] * 4
        assert status["Gid"].split() == [str(anna.gid)] * 4
        assert sorted(map(int, status["Groups"].split())) == list(anna.groups)
        assert status["Umask"] == "0022"
        assert Path(f"/proc/{process}/cwd").readlink() == anna.home


def test_what_an_executor_starts_is_its_user_in_every_respect(site, pool, anna):
    pool.ask("acquire", session="a", unix_user=anna.name)
    told = json.loads(pool.run("a", str(site.machine.python), "-c", WHO_AM_I, cwd=str(anna.home)))
    assert told["uid"] == [anna.uid] * 3
    assert told["gid"] == [anna.gid] * 3
    assert told["groups"] == list(anna.groups)
    assert len(anna.groups) > 1, "a group of its own and one more"
    assert told["umask"] == 0o022
    assert told["cwd"] == str(anna.home)
    assert {name: told["env"].get(name) for name in anna.login} == anna.login


def test_two_people_have_executors_of_their_own_users_at_the_same_time(pool, anna, ben):
    acquired = {
        user.uid: pool.ask("acquire", session=user.name, unix_user=user.name)
        for user in (anna, ben)
    }
    for user in (anna, ben):
        assert pool.run(user.name, "id", "-un").strip() == user.name
        assert acquired[user.uid]["executor"] in processes_of(user.uid)


def test_what_an_executor_may_know_of_its_environment_is_a_list(pool, anna):
    pool.ask("acquire", session="a", unix_user=anna.name)
    names = {line.partition("=")[0] for line in pool.run("a", "env").splitlines()}
    allowed = {*anna.login, "PATH", "LANG", "TZ", "TERM", "PWD", "AGOR_EXECUTOR_ID"}
    assert {name for name in names if not name.startswith("LC_")} <= allowed
