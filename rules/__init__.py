"""Rules: the one place where rule text gets a meaning. Nothing else of the project parses it."""

from sentinel_core.rules.clear import clear_kinds
from sentinel_core.rules.diff import Change, Pairs, diff_rules, pair_rules
from sentinel_core.rules.edit import format_text
from sentinel_core.rules.errors import Problem, RuleRejected, SentinelRulesError, UnknownKind
from sentinel_core.rules.kinds.authority import AuthorityRule
from sentinel_core.rules.kinds.biz_metric import BizMetricRule
from sentinel_core.rules.kinds.degrade import DegradeRule
from sentinel_core.rules.kinds.flow import FlowClusterConfig, FlowRule
from sentinel_core.rules.kinds.param_flow import ParamFlowClusterConfig, ParamFlowItem, ParamFlowRule
from sentinel_core.rules.kinds.system import SystemRule
from sentinel_core.rules.merge import merge_sets
from sentinel_core.rules.parse import parse_revision, parse_rules
from sentinel_core.rules.registry import KINDS
from sentinel_core.rules.revision import Kind, Provenance, Revision, SourceText, content_digest
from sentinel_core.rules.rule import OriginRule, Rule
from sentinel_core.rules.ruleset import RuleSet
from sentinel_core.rules.schema import json_schema
from sentinel_core.rules.source import Limits


def describe_rule(rule: Rule) -> str:
    """One human line for a rule, without its resource, e.g. `qps ≤ 50`, or `qps ≤ 50 (shadow)`."""
    mode = getattr(rule, "mode", None)
    return f"{rule.describe()} ({mode})" if mode else rule.describe()


__all__ = [
    "KINDS",
    "AuthorityRule",
    "BizMetricRule",
    "Change",
    "DegradeRule",
    "FlowClusterConfig",
    "FlowRule",
    "Kind",
    "Limits",
    "OriginRule",
    "Pairs",
    "ParamFlowClusterConfig",
    "ParamFlowItem",
    "ParamFlowRule",
    "Problem",
    "Provenance",
    "Revision",
    "Rule",
    "RuleRejected",
    "RuleSet",
    "SentinelRulesError",
    "SourceText",
    "SystemRule",
    "UnknownKind",
    "clear_kinds",
    "content_digest",
    "describe_rule",
    "diff_rules",
    "format_text",
    "json_schema",
    "merge_sets",
    "pair_rules",
    "parse_revision",
    "parse_rules",
]
