"""Which secrets are masked before anything is kept, and what only looks like one."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.memory import ErrorNotebook, LessonBook
from langgraph_reflexion.schemas import Episode, Failure, Lesson
from langgraph_reflexion.text.literals import mask_secrets

MASKED = {  # where only a part of it is the secret, that part stands in « »
    "a key of a model's provider": "sk-ant-api03-abcDEF123456-xyz_789",
    "a payment key": "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "a GitHub token": "ghp_abcdefghijklmnop1234567890abcdefghij",
    "a GitLab token": "glpat-abcdefghij1234567890",
    "a Slack token": "xoxb-123456789012-abcdefABCDEF",
    "a Slack hook": "https://hooks.slack.com/services/T0001/B0001/XXXXXXXXXXXXXXXX",
    "a mail service's key": "SG.abcdefghijklmnopqrstuv.ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "an AWS key id": "AKIAIOSFODNN7EXAMPLE",
    "an AWS secret key": "aws_secret_access_key = «wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»",
    "a Google key": "AIzaSyD-abcdefghijklmnopqrstuvwxyz12345",
    "a Google token": "ya29.a0AfH6SMBabcdefgh",
    "an Azure key": "AccountKey=«Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq»==",
    "a JSON web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdef",
    "a private key": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaA\n-----END OPENSSH PRIVATE KEY-----",
    "the end of a private key": "left out …]«\nb3BlbnNzaC1rZXktdjE=\nAbC=\n-----END RSA PRIVATE KEY-----»",
    "a bearer header": "Authorization: Bearer «abcdef1234567890ABCD»",
    "a basic header": "Authorization: Basic «dXNlcjpwYXNzd29yZA»==",
    "a key header": "X-Api-Key: «1a2b3c4d5e6f»",
    "a parameter": "?access_token=«abc123def456»",
    "a variable": "export DB_PASS=«s3cretvalue»",
    "a quoted value": "client_secret: '«abcdefghij»'",
    "a connection string": "mongodb+srv://«ada:pa55word»@cluster0.mongodb.example",
    "a password in a sentence": "the password for ada is «Tr0ub4dor»",
    "a password in Chinese": "密码：«abc12345»",
    "a pin": "my pin is «4821»",
    "a one-time code": "otp «123456»",
    "a session": "session=«abcdef0123456789abcdef»",
    "a long hexadecimal key": "9944b09199c62bcf9418ad846dd0e4bbdfc6ee4b",
    "a mail address": "ada.lovelace@firma.example",
    "a card number": "5500 0000 0000 0004",
    "a short card number": "3782 822463 10005",
}
KEPT = [
    "commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904 broke the build",
    "the image sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 is old",
    "an empty file has the md5 d41d8cd98f00b204e9800998ecf8427e",
    "the id 550e8400-e29b-41d4-a716-446655440000 of the order",
    "the run 01J9ZK3V5Q8W7X6Y5Z4A3B2C1D",
    "the lesson 0123456789abcdef",
    "install @types/node@20.1.0 first",
    "clone git@github.com:org/repo.git first",
    "call +44 20 7946 0958 before noon",
    "the book with ISBN 978-3-16-148410-0",
    "the order 4111111111111112",
    "the role arn:aws:iam::123456789012:role/reader",
    "the token limit is 4096",
    "the password: required, at least twelve signs",
    "see docs.python.org/3/library/re.html",
]


@pytest.mark.req("D2")
@pytest.mark.parametrize("secret", MASKED.values(), ids=MASKED)
def test_a_secret_of_this_form_is_masked(secret: str) -> None:
    part = secret.partition("«")[2].partition("»")[0] or secret
    said = mask_secrets(f"Use {secret.replace('«', '').replace('»', '')} here.")
    assert part not in said
    assert "[secret]" in said or "[mail]" in said or "[card]" in said
    assert said.startswith("Use ")
    assert said.endswith(" here.")


@pytest.mark.req("D2")
@pytest.mark.parametrize("secret", MASKED.values(), ids=MASKED)
def test_a_secret_between_characters_that_no_space_separates_is_masked(secret: str) -> None:
    part = secret.partition("«")[2].partition("»")[0] or secret
    said = mask_secrets(f"请使用{secret.replace('«', '').replace('»', '')}登录")
    assert part not in said
    assert said.startswith("请使用")


@pytest.mark.req("D2")
@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("先给ada@firma.example发邮件，然后等回复", "先给[mail]发邮件，然后等回复"),
        ("ขอส่งถึงada@firma.exampleด้วย", "ขอส่งถึง[mail]ด้วย"),
        ("用AKIAIOSFODNN7EXAMPLE签名", "用[secret]签名"),
        ("先用DE89370400440532013000付款", "先用[account]付款"),
        ("۔Bearer abcdefghijklmnop1234567890", "۔Bearer [secret]"),
        ("请求头：Bearer abcdefghijklmnop1234567890", "请求头：Bearer [secret]"),
        ("邮箱：ada@firma.example", "邮箱：[mail]"),
    ],
)
def test_the_words_beside_a_secret_stay_where_no_space_separates_them(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked


@pytest.mark.req("D2")
@pytest.mark.parametrize("text", KEPT)
def test_text_that_only_looks_like_a_secret_stays(text: str) -> None:
    assert mask_secrets(text) == text
    assert mask_secrets(f"请看{text}。") == f"请看{text}。"


SHAPES = Path(__file__).parent / "data"


@pytest.mark.req("D2")
def test_eighty_shapes_of_secrets_are_masked() -> None:
    lines = (SHAPES / "secrets.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    assert len(lines) >= 80
    for line in lines:
        what, _, secret = line.replace("\\n", "\n").partition("|")
        part = secret.partition("«")[2].partition("»")[0] or secret
        said = mask_secrets(f"Use {secret.replace('«', '').replace('»', '')} here.")
        assert part not in said, what


@pytest.mark.req("D2")
def test_fifty_honest_numbers_and_names_stay() -> None:
    lines = (SHAPES / "no_secrets.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    assert len(lines) >= 50
    for line in lines:
        assert mask_secrets(f"Note {line} here.") == f"Note {line} here."


@pytest.mark.req("D2")
def test_no_field_of_a_lesson_an_episode_a_finding_or_a_file_keeps_a_secret(tmp_path: Path) -> None:
    secret, store = "ghp_abcdefghijklmnop1234567890abcdefghij", InMemoryStore()
    book = LessonBook(store, ("team",))
    said = f"the key {secret} is refused"
    fields = {"when": said, "when_not": f"not {said}", "why": said, "tags": [secret], "topic": secret}
    kept = book.add(Lesson.model_validate({"kind": "rule", "text": f"Renew the login when {said}.", **fields})).lesson
    assert kept is not None
    failure = Failure(signal="tool_error", evidence=said, fingerprint="f")
    book.credit(Episode(id="r", task=said, success=True, shown=[kept.id], failures=[failure]))
    finding = {"category": "tool_misuse", "description": said, "cause": said, "suggestion": f"Renew it: {said}."}
    ErrorNotebook(store, ("team",)).add(finding)
    (tmp_path / "lessons.jsonl").write_text(json.dumps({"kind": "rule", "text": f"Check that {said}."}))
    book.load(tmp_path / "lessons.jsonl")
    held = [json.dumps(item.value) for item in store.search((), limit=100)]
    assert len(held) >= 5
    assert not any(secret in one for one in held)


@pytest.mark.req("K5")
@pytest.mark.parametrize("name", ["密钥", "recovery phrase is"])
def test_endless_white_space_after_the_name_of_a_secret_is_read_at_once(name: str) -> None:
    endless, began = name + " \n" * 10_000, time.process_time()
    assert mask_secrets(endless) == endless
    assert time.process_time() - began < 2
