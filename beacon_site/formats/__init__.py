"""How each language writes dates (Django's FORMAT_MODULE_PATH).

Templates and code name a format by what English shows, such as `j M Y`.  Django looks each one up as
a name in these modules, so a language lists only those that it writes differently.
"""
