"""User data of servers as text."""

import re
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

from heatlite.resources.nova.user_data import HANDLER, in_format
from tests.tables import table


@table("text", ["", "#!/bin/sh\necho", "a\r\nb\rc\n", "\x0b\x0cFrom x\n" * 30, "tür €\n" * 50])
def test_it_is_as_email_writes_it(text: str) -> None:
    """No part is changed, apart from ends of lines."""
    parts = [("part-handler.py", "part-handler", HANDLER)]
    parts += [("", "plain", text)] if text else []
    parts += [("cfn-init-data", "x-cfninitdata", '{"k":"é"}')]
    expected = MIMEMultipart()
    for name, kind, content in parts:
        part = MIMEText(content, kind, "us-ascii" if content.isascii() else "utf-8")
        if name:
            part.add_header("Content-Disposition", "attachment", filename=name)
        expected.attach(part)
    found = in_format("SOFTWARE_CONFIG", text, {"k": "é"}, "http://server/v1/")
    (boundary,) = re.findall('boundary="(.*)"', found)
    expected.set_boundary(boundary)
    assert found == expected.as_string()
