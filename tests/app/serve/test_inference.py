"""The Open Inference Protocol: shapes of the standard, binary tensors, and a client of Triton."""

import socket
import threading
import time

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="needs httpx2")

import msgspec

from app.serve.test_service import REGRESSION, ROWS, client_of, detail

INFER = "/v2/models/price/infer"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with client_of(tmp_path_factory.mktemp("models")) as client:
        client.put("/models/price", json=REGRESSION)
        client.post("/models/price/learn", json=ROWS)
        client.put("/models/empty", json=REGRESSION)
        yield client


def tensor(name, values, **more):
    return {
        "name": name,
        "shape": list(np.shape(values)),
        "datatype": "FP64",
        "data": np.ravel(values).tolist(),
        **more,
    }


def expected(client, rows):
    return client.post("/models/price/predict", json=rows).json()["predictions"]


def test_health_and_descriptions(client):
    assert client.get("/v2/health/live").status_code == client.get("/v2/health/ready").status_code == 200
    assert client.get("/v2").json()["name"] == "batch2online"
    about = client.get("/v2/models/price").json()
    assert about["inputs"][0] == {"name": "rows", "datatype": "FP64", "shape": [-1, 3]}
    version = about["versions"][0]
    assert client.get(f"/v2/models/price/versions/{version}").json() == about
    assert client.get("/v2/models/price/ready").status_code == 200
    detail(client.get("/v2/models/price/versions/999"), 404)
    detail(client.get("/v2/models/empty/ready"), 409)
    detail(client.get("/v2/models/none"), 404)


def test_one_tensor_or_one_for_each_column(client):
    rows = [[1.0, 2.0, 3.0], [0.0, -1.0, 4.0]]
    right = expected(client, [dict(zip("abc", row, strict=True)) for row in rows])
    whole = client.post(INFER, json={"id": "7", "inputs": [tensor("rows", rows)]}).json()
    assert whole["id"] == "7"
    assert whole["outputs"][0]["data"] == right
    parts = [tensor(name, column) for name, column in zip("abc", np.transpose(rows), strict=True)]
    assert client.post(INFER, json={"inputs": parts}).json()["outputs"][0]["data"] == right


def test_tensors_may_be_binary(client):
    rows = np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 4.0]])
    content = rows.astype("<f8").tobytes()
    own = {"name": "rows", "shape": [2, 3], "datatype": "FP64", "parameters": {"binary_data_size": len(content)}}
    head = msgspec.json.encode({"inputs": [own], "parameters": {"binary_data_output": True}})
    headers = {"Inference-Header-Content-Length": str(len(head))}
    found = client.post(INFER, content=head + content, headers=headers)
    length = int(found.headers["inference-header-content-length"])
    right = expected(client, [dict(zip("abc", row, strict=True)) for row in rows.tolist()])
    np.testing.assert_array_equal(np.frombuffer(found.content[length:]), right)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"inputs": []},
        {"inputs": [tensor("rows", [[1.0, 2.0]])]},
        {"inputs": [tensor("rows", [[1.0, 2.0, 3.0]], shape=[2, 3])]},
        {"inputs": [tensor("rows", [[1.0, 2.0, 3.0]], datatype="FP128")]},
        {"inputs": [tensor("rows", [[1.0, 2.0, 3.0]], shape=[-1, 3])]},
        {"inputs": [tensor("rows", [[1.0, 2.0, 3.0]], data=["x", "y", "z"])]},
        {"inputs": [tensor("a", [1.0, 2.0], datatype="BYTES", data=["x", 1])]},
        {"inputs": [tensor("a", [1.0], datatype="BYTES", data=[2**70])]},
        {"inputs": [tensor("a", [1.0], datatype="INT8", data=[300])]},
        {"inputs": [tensor("a", [1.0], datatype="FP64", data=[[[1], 2]])]},
        {"inputs": [tensor("a", [1.0], parameters={"binary_data_size": 9})]},
        {"inputs": [tensor("a", [1.0, 2.0]), tensor("b", [1.0]), tensor("c", [1.0])]},
    ],
    ids=str,
)
def test_wrong_requests_are_explained(client, body):
    detail(client.post(INFER, json=body), 422)


@pytest.mark.slow
def test_a_client_of_triton(tmp_path):
    http = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")
    uvicorn = pytest.importorskip("uvicorn")
    from batch2online.app.serve.service import create_app

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(create_app(tmp_path), port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.05)
        import httpx2 as httpx

        base = f"http://127.0.0.1:{port}"
        httpx.put(f"{base}/models/price", json=REGRESSION)
        httpx.post(f"{base}/models/price/learn", json=ROWS, timeout=60)
        client = http.InferenceServerClient(f"127.0.0.1:{port}")
        assert client.is_server_live()
        assert client.is_model_ready("price")
        rows = http.InferInput("rows", [2, 3], "FP64")
        rows.set_data_from_numpy(np.ones((2, 3)))
        found = client.infer("price", [rows]).as_numpy("predictions")
        right = httpx.post(f"{base}/models/price/predict", json=[{"a": 1, "b": 1, "c": 1}] * 2).json()
        np.testing.assert_array_equal(found, right["predictions"])
        client.close()
    finally:
        server.should_exit = True
        thread.join()
