"""The reference pages under docs/reference/, written from the code by `manage.py document`."""
