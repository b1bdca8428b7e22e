"""The settings of ZooKeeper: ensembles, and a credential that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.cli.main import main
from appliance.config import Address, Ensemble, SettingInvalid, load
from appliance.zookeeper.login import credential_in


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"hush", b":hush", b"hush:", b"a:hush\nb:hush\n", b"hush:\xff"]
)
def test_a_wrong_credential_is_not_shown(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "login"
    file.write_bytes(content)
    with pytest.raises(SettingInvalid, match=f"{file}: wanted one line, user:password") as refused:
        credential_in(file)
    assert "hush" not in str(refused.value)
    with pytest.raises(SettingInvalid, match="No such file"):
        credential_in(tmp_path / "none")


ENSEMBLES = {
    "a:1": Ensemble((Address("a", 1),)),
    "a:1/": Ensemble((Address("a", 1),)),
    "a:1, b:2/x/y/": Ensemble((Address("a", 1), Address("b", 2)), "/x/y"),
    "[::1]:1/x": Ensemble((Address("::1", 1),), "/x"),
}


def test_ensembles_are_read_and_shown() -> None:
    assert {text: Ensemble.parse(text) for text in ENSEMBLES} == ENSEMBLES
    assert str(ENSEMBLES["a:1, b:2/x/y/"]) == "a:1,b:2/x/y"
    assert load(pairs=["zookeeper.connect="]).zookeeper.ensemble == Ensemble()
    for text in ("a", "/x", "a:1,/x", "a:1//x", "a:1/../x", "a:1/x\n/y"):
        with pytest.raises(SettingInvalid, match=r"zookeeper\.connect: got"):
            load(pairs=[f"zookeeper.connect={text}"])
    answer = CliRunner().invoke(main, ["serve", "--zookeeper", "a"])
    wanted = "zookeeper.connect: got 'a' (flag), wanted HOST:PORT[,HOST:PORT...][/PATH]"
    assert (answer.exit_code, wanted in answer.stderr) == (2, True)


TLS = ("zookeeper.ssl.client.enable=true", "zookeeper.ssl.keystore.location=/x.pem")
BY_CERTIFICATE = "zookeeper.auth.mechanism=certificate"


def test_a_login_by_certificate_wants_one_and_no_other() -> None:
    assert load(pairs=[BY_CERTIFICATE, *TLS]).zookeeper.has_login
    assert not load(pairs=TLS).zookeeper.has_login
    for wrong in ([], TLS[:1], TLS[1:], [*TLS, "zookeeper.auth.file=/y"]):
        with pytest.raises(SettingInvalid, match=r"zookeeper\.auth\.mechanism: certificate"):
            load(pairs=[BY_CERTIFICATE, *wrong])
