"""Statement of the feature change policy."""

from collections.abc import Mapping

from heatlite.core.config import Auth, BadSetting, FeatureSettings, Settings
from heatlite.feature import Feature


class ChangePolicySettings(FeatureSettings, frozen=True):
    """Settings of change policies."""

    change_policy: Mapping[str, str] = {}
    """The change policy of all projects: the table ``[change_policy]`` of the file.

    Its keys are those of a project's policy. Each key takes the strictest value.
    """

    def check(self, settings: Settings) -> None:
        if not self.change_policy:
            return
        from msgspec import ValidationError

        from heatlite.core.errors import HeatliteError
        from heatlite.features.change_policy.checks import faults_of
        from heatlite.features.change_policy.effective import read_table

        try:
            found = read_table(self.change_policy)
            faults = faults_of(settings, found)
        except ValidationError as error:
            raise BadSetting(f"[change_policy]: {error}.") from None
        except HeatliteError as error:
            raise BadSetting(f"[change_policy]: {error.message}") from None
        if faults:
            raise BadSetting(f"[change_policy]: {' '.join(faults)}")
        if found.four_eyes is True and settings.auth is Auth.NONE:
            raise BadSetting("four_eyes in [change_policy] needs authentication: set `auth`.")


class ChangePolicyFeature(Feature):
    """Conditions of changes, by the operator, a project and a stack."""

    name = "change_policy"
    settings = ChangePolicySettings
    routes = "heatlite.features.change_policy.api.routes"
    rows = ("heatlite.features.change_policy.store.store:ChangePolicyStore",)
    commands = {
        "Health, locks and protection": {
            "heatlite.features.change_policy.commands.change_policy": ("change-policy",),
        }
    }


feature = ChangePolicyFeature()
