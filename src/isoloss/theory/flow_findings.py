"""What a race of SGD against the flow of the trace says of Theorem 3.3: numbers, verdicts and a panel."""

from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.theory.finding import Finding
from isoloss.theory.flow_against_sgd import FlowAgainstSGD

SOURCE = "Theorem 3.3 and equation (1)"


def codimension_finding(race: FlowAgainstSGD, predicted: int) -> Finding:
    """The rank of ∇²L at every time of the flow, which Assumption 3.1 says is one number."""
    wrong = [found for found in race.codimensions if found != predicted]
    return Finding(
        name="codimension",
        sentence="Along the flow ∇²L has the rank C (V - 1), the number of independent probabilities.",
        source="Assumption 3.1",
        predicted=predicted,
        relation="equal to",
        measured=(wrong or [predicted])[0],
        standard_error=None,
        n=len(race.codimensions),
        unit="dimensions",
        tolerance=0.0,
    )


def fall_finding(race: FlowAgainstSGD, tolerance: float) -> Finding:
    """SGD's fall of the trace as η → 0 in units of the flow's."""
    limit = race.fall_in_the_limit
    return Finding(
        name="fall of the trace",
        sentence="As η → 0, SGD's trace falls as far as that of the flow dθ/dt = -(1/4B) ∇_Γ Tr ∇²L.",
        source=SOURCE,
        predicted=1.0,
        relation="equal to",
        measured=limit.intercept,
        standard_error=limit.intercept_error,
        n=sum(len(at_rate.traces_below) for at_rate in race.runs),
        unit="of the flow's fall",
        tolerance=tolerance,
    )


def fall_at_last_rate_finding(race: FlowAgainstSGD, tolerance: float) -> Finding:
    """SGD's fall of the trace at the last learning rate in units of the flow's."""
    fall, error = race.fall(race.runs[-1])
    return Finding(
        name="fall of the trace",
        sentence="At the last learning rate SGD's trace falls about as far as that of equation (1).",
        source=SOURCE,
        predicted=1.0,
        relation="equal to",
        measured=fall,
        standard_error=error,
        n=len(race.runs[-1].traces_below),
        unit="of the flow's fall",
        tolerance=tolerance,
    )


def order_finding(race: FlowAgainstSGD, tolerance: float) -> Finding:
    """How SGD's distance from the flow falls with η."""
    order = race.order_of_distance
    return Finding(
        name="order of the distance",
        sentence="The runs' root mean square distance from the flow falls as √η.",
        source=f"{SOURCE}: convergence as η → 0; across Γ runs have the variance η / 2B",
        predicted=0.5,
        relation="equal to",
        measured=order.slope,
        standard_error=order.slope_error,
        n=sum(len(at_rate.traces_below) for at_rate in race.runs),
        unit="",
        tolerance=tolerance,
    )


def trace_panel(race: FlowAgainstSGD, name: str, of_what: str) -> Panel:
    """Trace against t: the flow, the mean of SGD's runs at each learning rate, and the cloud of runs."""
    return Panel(
        name=name,
        title=f"Trace against time: {of_what}",
        caption=(
            "The trace along the flow of equation (1), dashed, and of SGD's runs at t = kη²: means with "
            "their standard errors, and single runs of the smallest learning rate. Runs swing about Γ, by "
            "less the smaller η is."
        ),
        charts=(
            Lines(
                Axis("t", "t = kη²"),
                Axis("trace", "trace of ∇²L", "error"),
                Colour("path", "path"),
                series="series",
                predicted="predicted",
            ),
        ),
        data=race.data(),
    )
