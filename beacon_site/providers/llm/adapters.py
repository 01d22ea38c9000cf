"""Creates language models and embedders.

An adapter's module is imported when it's needed, since `openai` costs half a second and 50 MB.
"""

from __future__ import annotations

from beacon_site.providers.llm.base import (
    LOCAL,
    Embedder,
    EmbedderProfile,
    LanguageModel,
    LlmProfile,
)


def get_llm(profile: LlmProfile | None) -> LanguageModel | None:
    """Return the model of `profile`, or None without a profile (Beacon works without a model)."""
    if profile is None or not profile.model:
        return None
    from beacon_site.providers.llm.openai_model import OpenAIModel

    return OpenAIModel(profile)


def get_embedder(profile: EmbedderProfile | None) -> Embedder | None:
    """Return the embedder of `profile`, or None without a profile (Beacon works without one)."""
    if profile is None:
        return None
    if profile.where == LOCAL:
        from beacon_site.providers.llm.minilm_embedder import MiniLmEmbedder

        return MiniLmEmbedder()
    from beacon_site.providers.llm.openai_embedder import OpenAIEmbedder

    return OpenAIEmbedder(profile)


def local_is_installed() -> bool:
    """Whether the local embedder's packages are installed.  It doesn't load them."""
    from beacon_site.providers.llm.minilm_embedder import is_installed

    return is_installed()
