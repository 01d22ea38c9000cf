"""The settings of the processes that tests start: Beacon's own, but passwords are hashed cheaply.

The real hasher takes half a second on purpose, at each sign-in.
"""

from beacon_site.settings import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
