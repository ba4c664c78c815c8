"""The anchor of a heading on the site: the same as on a forge, so that a link fits both."""
import re


def slugify(heading, separator):
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", separator)
