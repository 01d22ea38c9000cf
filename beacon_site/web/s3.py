"""The bucket for automatic backups.  It needs the packages in requirements/extras.txt."""

from __future__ import annotations

from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from storages.backends.s3 import S3Storage


class BackupBucket(S3Storage):  # type: ignore[misc]
    """An S3 bucket, or one of a compatible service, whose failures are OSErrors."""

    def get_default_settings(self) -> dict[str, Any]:
        # Checksums in trailers are new, and not every compatible service accepts them.
        plain = Config(
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            connect_timeout=10,
            retries={"max_attempts": 3, "mode": "standard"},
        )
        given: dict[str, Any] = super().get_default_settings()
        return given | {"client_config": plain, "file_overwrite": True, "default_acl": None}

    def save(self, name: str, content: Any, max_length: int | None = None) -> str:
        """Upload a file, in parts if it is large.  Raises OSError."""
        try:
            return str(super().save(name, content, max_length))
        except (BotoCoreError, ClientError) as exc:
            raise OSError(str(exc)) from exc

    def delete(self, name: str) -> None:
        """Delete a file; one that doesn't exist is fine.  Raises OSError."""
        try:
            super().delete(name)
        except (BotoCoreError, ClientError) as exc:
            raise OSError(str(exc)) from exc
