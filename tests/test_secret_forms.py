"""The forms in which keys and passwords reach a log, and text that only looks like one. Each may be printed."""

from __future__ import annotations

import time

import pytest

from oomph.redaction import redaction
from oomph.redaction.redaction import know_secrets, redacted, redacted_data, redacted_words

KEY = "Zq8vN3kLmP0xR7tW"
HEX = "5f4dcc3b5aa765d61d8327deb882cf99"
PW = "hunter2"
WORD = "swordfish"
ODD = "p@ss:w0rd!"
FORMS = [
    # options
    f"mysql -u root -p {PW}",
    f"mysql -u root -p{WORD}",
    f"train.py -p {KEY}",
    f"train.py -p {PW}",
    f"train.py -p={KEY}",
    f"sshpass -p {WORD} ssh me@host",
    f"sshpass -p '{WORD}' ssh me@host",
    f"docker login -u bob -p {WORD} registry.example",
    f"docker login --username bob -p {WORD}",
    f"redis-cli -h db -a {WORD}",
    f"ldapsearch -x -w {WORD}",
    f"['mysql', '-u', 'root', '-p', '{PW}']",
    f"curl -u bob:{PW} https://host.example",
    f"curl -ubob:{PW} https://host.example",
    f"curl --user bob:{WORD} https://host.example",
    f"curl --user=bob:{WORD} https://host.example",
    f"curl -u 'bob:{WORD}' https://host.example",
    f"curl -U bob:{WORD} -x proxy",
    f"curl --proxy-user bob:{WORD}",
    f"['curl', '-u', 'bob:{PW}']",
    f"--password {WORD}",
    f"--password '{WORD} {WORD}'",
    f"--token\t{KEY}",
    f"--hub-token={WORD}",
    f"['--api-key', '{KEY}']",
    f"--wandb-key {KEY}",
    # in prose
    f"the password is {PW}",
    f"the password is {WORD}",
    f"The password is '{WORD}'.",
    f"password was {PW}",
    f"your password is now {WORD}",
    f"password set to {WORD}",
    f"the password has been set to {WORD}",
    f"changed the password to {PW}",
    f"password for bob is {WORD}",
    f"password for user bob: {WORD}",
    f"Password for 'https://bob@github.com': {WORD}",
    f"the token is {KEY}",
    f"API key is {KEY}",
    f"api key equals {KEY}",
    f"login failed with password {PW}",
    f"using secret {KEY}",
    f"HF_TOKEN environment variable set to {KEY}",
    f"HF_TOKEN environment variable is set to {KEY}",
    f"environment variable HF_TOKEN set to {KEY}",
    f"environment variable HF_TOKEN is set to {KEY}",
    f"environment variable PASSWORD set to {WORD}",
    f"the API key environment variable is set to {KEY}",
    f"set WANDB_API_KEY to {KEY}",
    f"value of API_KEY: {KEY}",
    f"API_KEY (env): {KEY}",
    # a key with any name
    f"key={KEY}",
    f"key={HEX}",
    f"?key={HEX}&q=1",
    f"key: {HEX}",
    f"key = '{KEY}'",
    f'"key": "{HEX}"',
    f"license_key={KEY}",
    f"x-functions-key: {KEY}",
    f"Ocp-Apim-Subscription-Key: {HEX}",
    f"SharedAccessKey={KEY}=;",
    f"AccountKey={KEY}{KEY}==;EndpointSuffix=core.windows.net",
    # a name followed only by a gap
    f"apikey {KEY}",
    f"api_key {KEY}",
    f"API key {KEY}",
    f"api key: {KEY}",
    f"apiKey: {KEY}",
    f"secret access key {KEY}",
    f"password {PW}",
    f"machine host login bob password {WORD}",
    f"password\t{PW}",
    f"password:\t\t\t\t\t{WORD}",
    f"password            :             {WORD}",
    f"api_key\t{KEY}",
    f"| api_key | {KEY} |",
    f"│ password │ {PW} │",
    # other signs, other quotes, other encodings
    f"password -> {WORD}",
    f"password => {WORD}",
    f"password := {WORD}",
    f"password → {WORD}",
    f'password="{WORD} {WORD}"',
    f"password='{ODD}'",
    f"password={ODD}",
    f"password=b'{WORD}'",
    f'os.environ["DB_PASSWORD"] = "{WORD}"',
    f"os.environ.setdefault('HF_TOKEN', '{KEY}')",
    f"set_password('{PW}')",
    f"login(token='{KEY}')",
    f"<password>{WORD}</password>",
    f"<api-key>{KEY}</api-key>",
    f"name: HF_TOKEN\n  value: {KEY}",
    f'{{"name": "DB_PASSWORD", "value": "{WORD}"}}',
    f"password%3D{WORD}",
    f"api_key%3D{KEY}%26b%3D1",
    f"api%5Fkey%3D{KEY}",
    f"token%3A%20{KEY}",
    f"%22password%22%3A%22{WORD}%22",
    f"next=https%3A%2F%2Fhost%2F%3Fkey%3D{HEX}",
    f"https%3A%2F%2Fbob%3A{WORD}%40host",
    f'{{\\"password\\": \\"{WORD}\\"}}',
    f"token\\u003d{KEY}",
    f"password&#61;{WORD}",
    f"PGPASSWORD={WORD}",
    f"MYSQL_PWD={WORD}",
    f"Server=db;Uid=sa;Pwd={WORD};",
    f"db_pass={WORD}",
    f"PASSWORD_1={KEY}",
    f"API_KEY_2={WORD}",
    f"password={'a1B2' * 200}{WORD}",
    # colours
    f"password=\x1b[31m{WORD}\x1b[0m",
    f"\x1b[1mapi_key\x1b[0m: \x1b[32m{KEY}\x1b[0m",
    f"pass\x1b[1mword\x1b[0m={WORD}",
    f"password=\x1b[1;38;5;196m{WORD[:5]}\x1b[0m{WORD[5:]}",
    f"\\x1b[1mpassword\\x1b[0m: {WORD}",
    f"\\033[1mpassword\\033[0m: {WORD}",
    f"\x1b[33mghp_{'aB3dE6gH9' * 4}\x1b[0m",
    # headers and addresses
    f"Authorization: Basic {KEY}=",
    f"Authorization: Token {WORD}{KEY}",
    f"authorization: Digest username=bob, response={HEX}",
    f"Authorization: AWS4-HMAC-SHA256 Credential=AK/20/s3, SignedHeaders=host, Signature={HEX}",
    f"X-Auth-Token: {KEY}",
    f"Set-Cookie: id={KEY}; Path=/",
    f"redis://:{WORD}@db:6379/0",
    f"postgres://bob:{WORD}@db/trials",
    f"https://bob:p@{WORD}@host/x",
    f"https://hooks.slack.com/services/T00000000/B00000000/{KEY}",
    f"wandb login {HEX}5f4dcc3b",
    f"mongodb://bob:Sup3r%40{WORD}@host/x",
    f"mongodb://bob%40host.example:{WORD}@host/x",
    f"mongodb://bob:Sup3r%2540{WORD}%23@host/x",
    f"https://{HEX}@o1.ingest.sentry.example/2",
    f"https://api.telegram.example/bot123456789:AAE{KEY}{KEY}/getMe",
    # options with other names
    f"--login bob:{PW}",
    f"--pw {PW}",
    f"--pw={WORD}",
    f"--db-pw {WORD}",
    f"--creds bob:{WORD}",
    f"--creds=bob:{WORD}",
    f"--tokens {KEY}",
    f"--pat {HEX}5f4dcc3b",
    f"--wandb {HEX}5f4dcc3b",
    f"--wandb={HEX}5f4dcc3b",
    f"['--wandb', '{HEX}5f4dcc3b']",
    f"--neptune eyJhcGlfYWRkcmVzcyI6Imh0dHBzOi8v{KEY}==",
    f"--password --{KEY}",
]
KEPT = [
    "sorted(names, key=lambda name: name.lower())",
    "max(scores, key=scores.get)",
    "key=operator.itemgetter(1)",
    "primary_key=id foreign_key=user_id",
    "sort_key=name --sort-key loss --group-key model",
    "keys=3, values=4",
    "monkey=banana turkey: roast hockey=1",
    "keyboard=us keyword=loss",
    "KeyError: 'conv2d_1'",
    "key: val_loss",
    "key=block1a_se_reduce/kernel:0",
    "key 'layers/dense_2/bias' is missing from the checkpoint",
    "key=ResNet50V2 key=MobileNetV3Small key=EfficientNetB0",
    "key_dim=64, num_heads=8, value_dim=64",
    "key=jax.random.PRNGKey(0)",
    "random.key(42) has the key<fry> dtype",
    "press any key to go on",
    "the key is not in the dictionary",
    "key to success",
    "missing key(s) in state_dict",
    "password is required",
    "password is missing or empty",
    "the password is too short",
    "Password must contain 8 characters",
    "password authentication failed for user bob",
    "Access denied for user 'root'@'localhost' (using password: YES)",
    "password=None, token=None",
    "usage: train.py [-h] [--password PASSWORD] [--token TOKEN]",
    "password: str | None = None",
    "a secret santa",
    "token count 12",
    "tokens: 512 max_tokens=2048 num_tokens: 33",
    "tokens/s: 1833.2, tokens 1.2e+06",
    "token 50256 is the end of the text",
    "eos_token=<|endoftext|> pad_token: [PAD] mask_token=[MASK]",
    "the token is predicted from the ones before",
    "the token is invalid",
    "token_type_ids=input token_embedding/kernel:0",
    "unexpected token '}' in line 3",
    "tokenizer=bert-base-uncased detokenize=True",
    "api_key is required: set the environment variable OPENAI_API_KEY",
    "no API key found",
    "export HF_TOKEN=$HF_TOKEN; token=${TOKEN}",
    "credentials: /home/me/key.json",
    "-p 8080",
    "-p 8080:80",
    "-p 127.0.0.1:8080:80/tcp",
    "ssh -p 2222 host",
    "mkdir -p out/models",
    "pytest -p no:cacheprovider",
    "train.py -p adam -p mixed_float16 -p bf16 -p 0.5 -p 1e-3 -p fold3",
    "python -u train.py",
    "python3 -u train.py -p adam",
    "docker run -u 1000:1000 image",
    "docker run --user 0:0 image",
    "forward pass: 0.3 s, pass=12 fail=3",
    "two passes: ok, bypass=true, compass=north",
    "PWD=/home/me OLDPWD=/tmp",
    "auth=None, auth: basic, author=bob",
    "https://host.example:6006/x?y=1 http://user@host/ git+ssh://git@host/x robot12:x",
    "--login bob --login bob:0",
    "signature: (int) -> float, design=5",
    "Basic LSTM cell, basic model",
    "2026-11-27 18:40:55.123456: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on",
    "\x1b[32mEpoch 1/5\x1b[0m \x1b[1m12/12\x1b[0m - loss: 0.5",
    "tokens = tf.gather(tokens, indices), all_tokens = build(data)",
    "not well-formed (invalid token): line 1, column 0",
    "login as bob, logging in, login(user)",
    "--patience 5 --pat 5 --pat *.csv --path x --pattern *.csv --keys a,b --pwd /home/me",
    "--pw 0.3 --tokens 512 --wandb online --wandb my-project --neptune offline --password --epochs 3",
    "--wandb runs/2026/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p --commit 5f4dcc3b5aa765d61d8327deb882cf995f4dcc3b",
    "sacred=1 incredible: yes, power=0.3 pw=12",
]


def test_tables_of_secret_forms_and_harmless_text_are_large_enough():
    assert len(set(FORMS)) >= 80
    assert len(set(KEPT)) >= 40


@pytest.mark.parametrize("text", FORMS)
def test_every_form_of_a_secret_is_redacted(text):
    for line in (text, f"so {text} it is", f"2026-11-27 [INFO] {text}\n"):
        found = redacted(line)
        for secret in (KEY, HEX, PW, WORD, ODD, "w0rd"):
            assert secret not in found
        assert "***" in found
        assert redacted(found) == found


@pytest.mark.parametrize("text", KEPT)
def test_text_that_only_looks_like_a_secret_is_not_redacted(text):
    assert redacted(text) == text
    assert redacted(f"so {text}\n") == f"so {text}\n"


def test_command_words_are_redacted_based_on_the_preceding_option():
    assert redacted_words(["a.py", "-p", KEY, "-p", "8080"]) == ["a.py", "-p", "***", "-p", "8080"]
    assert (
        redacted_words(["a.py", "-p", "S3cretPW12"])
        == redacted_words(["a.py", "-p", "p@ss-w0rd"])
        == ["a.py", "-p", "***"]
    )
    assert redacted_words(["a.py", "-u", "bob", "-p", PW]) == ["a.py", "-u", "bob", "-p", "***"]
    assert redacted_words(["curl", "-u", f"bob:{WORD}"]) == ["curl", "-u", "bob:***"]
    assert redacted_words(["python", "-u", "a.py", "-p", "adam"]) == ["python", "-u", "a.py", "-p", "adam"]
    assert redacted_words(["login", "-u", "bob", "-p", WORD]) == ["login", "-u", "bob", "-p", "***"]
    assert redacted_words(["mysql", "-u", "root", f"-p{WORD}"]) == ["mysql", "-u", "root", "-p***"]
    assert redacted_words(["--sort-key", "loss", "--key", KEY]) == ["--sort-key", "loss", "--key", "***"]


@pytest.mark.parametrize("password", ["correct", "is", "required", f"--{KEY}"])
def test_any_word_after_a_password_option_is_redacted(password):
    assert redacted_words(["a.py", "--password", password]) == ["a.py", "--password", "***"]


def test_key_after_a_service_option_is_redacted_but_a_mode_is_kept():
    assert redacted_words(["a.py", "--wandb", HEX, "--wandb", "online"]) == [
        "a.py",
        "--wandb",
        "***",
        "--wandb",
        "online",
    ]


def test_secret_inside_a_command_word_is_redacted_everywhere(monkeypatch):
    monkeypatch.setattr(redaction, "_known", set())
    monkeypatch.setattr(redaction, "_around", set())
    know_secrets(["a.py", "--db", f"mongodb://bob:a%40{WORD}@host", f"key={KEY}", "--pw", f"{PW}{PW}"], {})
    for secret in (f"a@{WORD}", f"a%40{WORD}", KEY, f"{PW}{PW}"):
        assert redacted(f"refused {secret} here") == "refused *** here"
        assert redaction.holds_known_secret(f"x {secret} y".encode())
    assert redaction.holds_known_secret(f"at mongodb://bob:a%40{WORD}@host/x")
    assert not redaction.holds_known_secret("adam a.py host bob")


@pytest.mark.parametrize("value", ["fold7", "ResNet50V2", "EfficientNetV2B0", "adam", "0.1", "data/"])
def test_setting_after_a_short_option_is_not_redacted(value):
    assert redacted_words(["train.py", "-p", value]) == ["train.py", "-p", value]
    assert redaction.digest_of_words(["train.py", "-p", value]) == ""


@pytest.mark.parametrize("words", [
    ("-p", "hunter2abc"), ("-p", "pinn12"), ("--cookie=abcDEF123xyz9",), ("--cookie", "abcDEF123xyz9"),
    ("--cookie=sid=abcdef12; theme=dark",), ("--session=s3cr3tvalue99",), ("--session-id", "9f8e7d6c5b4a"),
    ("PHPSESSID=9f8e7d6c5b4a3f2e1d",),
])  # fmt: skip
def test_what_is_hidden_in_print_is_hidden_in_what_is_stored(words):
    given = ["train.py", *words, "--lr=0.1"]
    hidden = redacted_words(given)
    assert hidden == redacted_data({"command": given})["command"]
    assert " ".join(hidden) == redacted(" ".join(given))
    assert (hidden[0], hidden[-1]) == ("train.py", "--lr=0.1")
    assert not any(words[-1].rpartition("=")[2] in word for word in hidden)


@pytest.mark.parametrize("text", ["--session=night", "session=trial2", "DESKTOP_SESSION=plasma5", "Session(config=c)"])
def test_name_of_a_session_is_kept(text):
    assert redacted(text) == text


def test_commands_that_look_the_same_without_their_secrets_differ_in_their_digests():
    digests = {redaction.digest_of_words(["train.py", "-p", value]) for value in ("pinn12", "pinn13", "hunter2abc")}
    assert len(digests) == 3
    assert all(len(digest) == 4 for digest in digests), "too short to work out the secret"


def test_a_setting_that_is_hidden_is_not_taken_for_a_known_secret(monkeypatch):
    """Whatever holds a known secret is left out of checkpoints."""
    monkeypatch.setattr(redaction, "_known", set())
    know_secrets(["train.py", "-p", "mymodel12"], {})
    assert not redaction.holds_known_secret("mymodel12")


def test_secret_after_a_short_option_is_redacted_everywhere(monkeypatch):
    monkeypatch.setattr(redaction, "_known", set())
    know_secrets(["a.py", "-p", f"{PW}{PW}2", "-u", f"bob:{WORD}", "--sort-key", "accuracy"], {"KEY": "something"})
    assert redacted(f"refused {PW}{PW}2 and {WORD} of accuracy") == "refused *** and *** of accuracy"


def test_mapping_entry_named_key_is_not_redacted():
    data = {"key": "5f4dcc3b5aa765d6", "cache_key": "a1b2c3d4e5f6a7b8", "tokens": 5}
    assert redacted_data(data) == data


@pytest.mark.parametrize(
    "piece",
    ["-p a", "-p", "-u a:", "-u a", "password is ", "password for a ", "key=", "password\t", "token for " + "a" * 99,
     "%3A", "a%3A%2F%2F", "pass_", "password_a_b_c", "password is set to ", "\x1b[0m", "\\x1b[", "password='",
     "api key ",
     "password" + " " * 79, "password value", "token\\\\\\", "://a:b", "key<", "authorization: basic ", "basic a",
     "docker login -p a ", "--wandb ", "--wandb a", "--pat aaaaaaaaaaaaaaaaaaaaaaaaaaaaa1-", "mongodb://bob:%40",
     "a://b%40", "a://b:c@d", "--pw ", "--password --a", "cred"],
)  # fmt: skip
def test_long_text_of_any_form_is_redacted_quickly(piece):
    text = f"key {piece * (2**18 // len(piece))}"
    started = time.process_time()
    redacted(text)
    assert time.process_time() - started < 3
